"""HTTP in: the contract, who may ask, what is answered, and how a refusal reads."""

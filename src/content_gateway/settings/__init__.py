"""Settings: one frozen value, valid as a whole, that knows where each part came from."""

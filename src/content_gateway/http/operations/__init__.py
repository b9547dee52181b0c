"""The operations of spec.yaml: one file a resource, and what its answers look like."""

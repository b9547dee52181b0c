"""Other pinning services, as sources of pins: what their Pinning Service API lists."""

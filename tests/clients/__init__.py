"""The description in others' hands: linted, and made into clients that call the service."""

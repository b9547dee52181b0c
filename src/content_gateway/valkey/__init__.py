"""Valkey or Redis, where services on several machines share the limits of keys (ADR 20)."""

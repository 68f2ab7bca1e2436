"""The gate: signals in, a plan out, deterministically."""

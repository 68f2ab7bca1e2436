"""The demonstration: a small real web on loopback, and the driver that shows one whole run on it."""

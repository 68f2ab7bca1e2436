"""Memory inside an agent's own loop, without a service: the wiring of the parts on one machine."""

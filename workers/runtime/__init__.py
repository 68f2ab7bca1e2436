"""State of a running worker: heartbeat, backpressure, blobs, breakers."""

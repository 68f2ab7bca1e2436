"""What a running worker keeps: heartbeat, backpressure, blobs, breakers."""

"""HTTP/1.1 for a crawler: requests, responses, bodies of bounded size."""

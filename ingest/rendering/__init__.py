"""What the browser of a crawl worker is made of: its launch, its isolation, its pages."""

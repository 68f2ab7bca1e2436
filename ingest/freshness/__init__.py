"""How fresh what was ingested is: manifests of pages, the plan that follows from two of them, when a page is due."""

"""Pages rendered in an isolated Chromium: launch, sandbox, guards, tabs."""

"""Talk: recognises utterances that need no source."""

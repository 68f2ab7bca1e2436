"""The attack corpus: commands to a reader's model, made from templates, languages and envelopes. All of it is our own."""

"""The commands of completions. ``reencryption`` encrypts what is stored anew, after a change of the encryption keys."""

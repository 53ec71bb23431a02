"""What an installation with very many completions needs: disk, and the work of every minute, night and upgrade."""

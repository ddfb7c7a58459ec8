"""Reading ahead: by the system into its page cache, or by a background thread."""

"""Reading ahead: hints to the system's page cache, and a background thread."""

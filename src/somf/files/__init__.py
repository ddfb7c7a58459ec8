"""Files as the system has them: written atomically, and locked."""

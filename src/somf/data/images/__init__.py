"""Images: files of several kinds, and their patches as samples."""

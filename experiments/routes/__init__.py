"""Parts of the routing experiment."""

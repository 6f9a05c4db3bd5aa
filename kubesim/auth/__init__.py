"""Who asks, and may they: tokens, users, RBAC and the review kinds that answer questions about both."""

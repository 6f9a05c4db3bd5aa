"""Everything that talks to a Kubernetes API. The only importer of ``kubernetes``; its exceptions end here."""

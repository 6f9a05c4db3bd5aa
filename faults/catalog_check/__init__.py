"""The proof of the catalogue's packs, one variant at a time, on practice clusters."""

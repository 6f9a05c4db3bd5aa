"""Guide mode: a practice cluster on which the user guide of GPU fault injection works, with everything labelled."""

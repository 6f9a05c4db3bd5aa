"""The versions that this build is of."""

cuda = "12.4"

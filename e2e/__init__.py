"""Whole-system tests: the real processes, a real browser, a real kubectl."""

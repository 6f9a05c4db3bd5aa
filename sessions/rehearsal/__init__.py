"""The whole interview with no person in it: the smoke test that users run after installing."""

"""What the wheel contains: its version, exports and jars, and the packages that only some functions need."""

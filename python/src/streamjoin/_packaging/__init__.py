"""What the wheel is: its version, what it exports, its jars, and packages that only some functions need."""

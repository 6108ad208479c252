"""The way to Spark: sessions that are built, checked and called."""

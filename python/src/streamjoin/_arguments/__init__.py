"""What functions take: columns, keys, durations, join types, queries."""

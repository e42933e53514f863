"""From records to results: rows, statistics, agreement, warnings, timelines."""

"""Reports: tables, pictures, pages and traces, from records only."""

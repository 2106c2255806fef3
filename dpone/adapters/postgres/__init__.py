"""Journal and target on PostgreSQL 14 and newer, with psycopg 3."""

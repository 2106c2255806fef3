"""Spans and counters through the OpenTelemetry API; whoever starts the program brings the SDK."""

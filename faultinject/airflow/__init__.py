"""A real Airflow with retries on: started per version, hurt on purpose, judged by the target."""

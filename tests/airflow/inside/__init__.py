"""Scripts that run inside the Airflow environment, where there is no pytest and no Spark; they print JSON."""

"""The Spark session, the Java under it, Databricks, and one batch as one Spark job."""

"""The Spark session, the Java under it, and one batch as one Spark job."""

-- Orders joined with their deliveries within an hour of event time: the demo in SQL. ${demo.work} is a setting.
CREATE TABLE orders (order_id BIGINT, order_time TIMESTAMP, customer STRING, cents BIGINT)
USING parquet LOCATION '${demo.work}/orders';

CREATE TABLE deliveries (delivery_id BIGINT, order_id BIGINT, delivery_time TIMESTAMP, courier STRING)
USING parquet LOCATION '${demo.work}/deliveries';

SELECT o.*, d.delivery_id, d.delivery_time, d.courier
FROM STREAM orders WITH (maxFilesPerTrigger = 4) WATERMARK order_time DELAY OF INTERVAL 10 MINUTES AS o
LEFT JOIN STREAM deliveries WITH (maxFilesPerTrigger = 4) WATERMARK delivery_time DELAY OF INTERVAL 10 MINUTES AS d
  WITHIN BETWEEN 0 SECONDS AND INTERVAL 1 HOUR
  ON o.order_id = d.order_id;

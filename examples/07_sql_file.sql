-- Orders, each with its delivery if that comes within an hour, in SQL from beginning to end.
-- The last statement is the streaming query; 07_sql_file.py starts it. ${shop.data} is a setting.
CREATE TABLE orders (id INT, time TIMESTAMP) USING csv LOCATION '${shop.data}/orders';

CREATE TABLE deliveries (id INT, time TIMESTAMP) USING csv LOCATION '${shop.data}/deliveries';

CREATE TEMPORARY VIEW delivered AS
SELECT o.id, o.time AS ordered, d.time AS delivered
FROM IMPOSE_ORDER(TABLE(SELECT * FROM STREAM orders), DESCRIPTOR(time), INTERVAL 10 MINUTES) AS o
LEFT JOIN STREAM deliveries WATERMARK time DELAY OF INTERVAL 10 MINUTES AS d
  WITHIN BETWEEN 0s AND 1h
  ON o.id = d.id;

SELECT * FROM delivered;

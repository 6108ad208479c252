"""Start a join without a time bound, which is rejected, and then the same with one.

Without a bound, every order and every delivery would have to be kept forever.
"""

import shop
from pyspark.errors import AnalysisException
from pyspark.sql.functions import expr

spark = shop.session()
orders, deliveries = shop.orders(), shop.deliveries()

condition = expr("id = order_id")
try:
    orders.join(deliveries, condition).writeStream.format("noop").start()
except AnalysisException as error:
    print(f"Rejected with {error.getCondition()}:\n\n{error}\n")

condition &= expr("delivered BETWEEN ordered AND ordered + INTERVAL 1 HOUR")
joined = orders.join(deliveries, condition)
query = joined.writeStream.format("memory").queryName("joined").start()
query.processAllAvailable()
query.stop()

spark.table("joined").orderBy("id").show()
spark.stop()

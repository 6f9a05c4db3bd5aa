# image: tensorflow/tensorflow:2.17.0-gpu
# expect: ^visible: \[\]$
# expect: ^iteration 30: \d+\.\d+ s on /job:localhost/replica:0/task:0/device:CPU:0$
import time

import tensorflow as tf

tf.config.set_visible_devices([], "GPU")
print("visible:", tf.config.get_visible_devices("GPU"))
a = tf.random.normal((64, 64))
b = tf.random.normal((64, 64))
began = time.time()
for i in range(1, 31):
    c = tf.matmul(a, b)
    if i % 10 == 0:
        print(f"iteration {i}: {time.time() - began:.3f} s on {c.device}", flush=True)
print("mean", float(tf.reduce_mean(c)))

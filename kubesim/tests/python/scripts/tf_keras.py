# image: tensorflow/tensorflow:2.17.0-gpu
# expect: ^Num GPUs Available:  1$
# expect: ^Epoch 2/2$
# expect: accuracy: \d\.\d+
# expect: ^Test accuracy: \d\.\d{4}$
import numpy as np
import tensorflow as tf

print("Num GPUs Available: ", len(tf.config.list_physical_devices("GPU")))
for gpu in tf.config.list_physical_devices("GPU"):
    tf.config.experimental.set_memory_growth(gpu, True)
rng = np.random.default_rng(0)
x_train = rng.normal(size=(64, 20)).astype("float32")
y_train = (x_train.sum(axis=1) > 0).astype("int64")
model = tf.keras.Sequential(
    [
        tf.keras.layers.Input(shape=(20,)),
        tf.keras.layers.Dense(16, activation="relu"),
        tf.keras.layers.Dropout(0.1),
        tf.keras.layers.Dense(2, activation="softmax"),
    ]
)
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
history = model.fit(x_train, y_train, epochs=2, batch_size=16, verbose=2)
loss, accuracy = model.evaluate(x_train, y_train, verbose=0)
assert len(history.history["loss"]) == 2
print(f"Test accuracy: {accuracy:.4f}")

"""TensorFlow in containers: its devices, its errors, training and Keras' log lines."""

from __future__ import annotations

import re

import pytest

from kubesim.gpu.readings import read
from kubesim.tests.containers import log, run
from kubesim.tests.world import container, pod, world

IMAGE, WITHOUT = "tensorflow/tensorflow:2.17.0-gpu", "tensorflow/tensorflow:2.17.0"


async def said(source, *, image=IMAGE, gpus=1, product="H100", seconds=30, made=False):
    """Return what a program prints, with or without the lines that tell that TensorFlow has made its devices."""
    async with world(count=1, present=(image,), product=product) as w:
        limits = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
        main = container(image, "python3", "-u", "-c", source, resources=limits)
        await w.create("pods", pod("tf", main, restartPolicy="Never"))
        await w.tick(seconds)
        return [line for line in log(w, "tf").splitlines() if made or "Created device" not in line]


async def test_tensorflow_sees_what_the_container_was_given():
    lines = await said(
        "import tensorflow as tf\n"
        "print(tf.__version__, tf.keras.__version__, tf.test.is_built_with_cuda())\n"
        "print(tf.config.list_physical_devices('GPU'))\n"
        "print(tf.constant([[1., 2.]]).device)\n"
        "print(tf.constant([[1., 2.]]) * 2)",
        product="T4",
        made=True,
    )
    gpu = "PhysicalDevice(name='/physical_device:GPU:0', device_type='GPU')"
    assert lines[:2] == ["2.17.0 3.5.0 True", f"[{gpu}]"]
    made = (
        r"gpu_device.cc:2021\] Created device /job:localhost/replica:0/task:0/device:GPU:0 with 143\d\d MB memory:  "
    )
    made += r"-> device: 0, name: Tesla T4, pci bus id: 0000:00:04.0, compute capability: 7.5"
    assert re.search(made, lines[2])
    assert lines[3:] == [
        "/job:localhost/replica:0/task:0/device:GPU:0",
        "tf.Tensor([[2. 4.]], shape=(1, 2), dtype=float32)",
    ]


async def test_versions_are_those_of_the_image():
    source = "import keras, tensorflow as tf\nprint(tf.__version__, keras.__version__, tf.keras.__version__)"
    assert await said(source, image="tensorflow/tensorflow:2.19.0-gpu") == ["2.19.0 3.9.2 3.9.2"]


async def test_functions_go_by_their_names_and_others_are_missing():
    source = (
        "import tensorflow as tf\n"
        "x, w = tf.constant([[1., -2.], [3., 4.]]), tf.constant([[2.], [1.]])\n"
        "print(tf.reduce_sum(tf.nn.relu(tf.matmul(x, w) - 1.0) * tf.transpose([[1., 2.]])).numpy())\n"
        "print(tf.concat([w, w], 0)[1:].numpy().ravel().tolist(), tf.reduce_mean(tf.constant([1, 2])).numpy())\n"
        "dense = tf.keras.layers.Dense(4, activation='relu')\n"
        "print(dense(tf.ones((2, 3))).shape, dense.count_params())\n"
        "tf.GradientTape"
    )
    lines = await said(source)
    assert lines[:3] == ["18.0", "[1.0, 2.0, 1.0] 1", "(2, 4) 16"]
    assert lines[-1] == "AttributeError: module 'tensorflow' has no attribute 'GradientTape'"


@pytest.mark.parametrize(("image", "gpus", "built"), [(IMAGE, 0, True), (WITHOUT, 1, False)])
async def test_without_a_gpu_or_without_cuda_it_computes_on_the_processor(image, gpus, built):
    source = "import tensorflow as tf\nprint(tf.test.is_built_with_cuda(), tf.config.list_physical_devices('GPU'))\n"
    source += "print(tf.ones(2).device[-5:])"
    assert await said(source, image=image, gpus=gpus) == [f"{built} []", "CPU:0"]


async def test_devices_are_chosen_before_the_first_operation_and_not_after():
    source = (
        "import tensorflow as tf\n"
        "tf.config.set_visible_devices([], 'GPU')\n"
        "print(tf.config.get_visible_devices(), len(tf.config.list_physical_devices('GPU')))\n"
        "print(tf.ones(2).device[-5:])\n"
        "tf.config.set_visible_devices(tf.config.list_physical_devices('GPU'), 'GPU')"
    )
    lines = await said(source)
    cpu = "PhysicalDevice(name='/physical_device:CPU:0', device_type='CPU')"
    assert lines[:2] == [f"[{cpu}] 1", "CPU:0"]
    assert lines[-1] == "RuntimeError: Visible devices cannot be modified after being initialized"


async def test_a_hidden_gpu_stays_idle_while_processors_work():
    source = (
        "import tensorflow as tf\n"
        "tf.config.set_visible_devices([], 'GPU')\n"
        "a = tf.random.normal((4096, 4096))\n"
        "while True:\n    float(tf.reduce_mean(tf.matmul(a, a)))\n"
    )
    async with world(count=1, present=(IMAGE,)) as w:
        limits = {"limits": {"nvidia.com/gpu": "1", "cpu": "4"}}
        await w.create("pods", pod("tf", container(IMAGE, "python3", "-c", source, resources=limits)))
        await w.tick(20)
        device = w.kubelets.gpus(w.node_names[0]).board.devices[0]
        assert (read(device, w.clock.now()).util, [*device.tasks]) == (0, [])
        stat = (await run(w, "tf", "cat", "/sys/fs/cgroup/cpu.stat"))[1]
        assert int(stat.split()[1]) > 40e6


async def test_keras_trains_and_logs_as_keras_3():
    lines = await said(
        "import tensorflow as tf\n"
        "(x, y), (x_test, y_test) = tf.keras.datasets.mnist.load_data()\n"
        "x, x_test = x / 255.0, x_test / 255.0\n"
        "model = tf.keras.models.Sequential([\n"
        "    tf.keras.layers.Flatten(input_shape=(28, 28)), tf.keras.layers.Dense(128, activation='relu'),\n"
        "    tf.keras.layers.Dropout(0.2), tf.keras.layers.Dense(10)])\n"
        "loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)\n"
        "model.compile(optimizer='adam', loss=loss, metrics=['accuracy'])\n"
        "model.fit(x, y, epochs=2, verbose=2)\n"
        "print(model.evaluate(x_test, y_test, verbose=2))",
        seconds=60,
    )
    assert lines[0] == "Downloading data from https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz"
    form = r"1875/1875 - (\d+)s - \d+ms/step - accuracy: (0\.\d{4}) - loss: (\d\.\d{4})"
    epochs = [re.fullmatch(form, each) for each in lines]
    (first, second) = filter(None, epochs)
    assert float(first[3]) > float(second[3])
    assert float(first[2]) < float(second[2]) < 1
    assert re.fullmatch(r"313/313 - \d+s - \d+ms/step - accuracy: 0\.\d{4} - loss: 0\.\d{4}", lines[-2])


async def test_keras_fits_a_line_and_calls_back_after_each_epoch():
    source = (
        "import numpy as np\nimport tensorflow as tf\n"
        "from tensorflow.keras import callbacks, layers, models, optimizers\n"
        "class Told(callbacks.Callback):\n"
        "    def on_epoch_end(self, epoch, logs=None):\n        print(epoch, sorted(logs))\n"
        "x = np.linspace(-1, 1, 64).reshape(-1, 1).astype('float32')\n"
        "model = models.Sequential([layers.Dense(1, activation='linear', input_shape=(1,))])\n"
        "model.compile(optimizers.Adam(0.1, beta_1=0.9), loss='mse')\n"
        "model.fit(x, 3 * x + 1, epochs=30, verbose=0)\n"
        "model.fit(x, 3 * x + 1, verbose=0, callbacks=[Told()], validation_split=0.25)\n"
        "print([round(float(w.item()), 0) for w in model.get_weights()])\n"
        "try:\n    layers.Dense(1, nonsense=1)\nexcept TypeError as error:\n    print(error)\n"
        "layers.Dense(1, activation='nosuch')"
    )
    lines = await said(source)
    assert lines[:2] == ["0 ['loss', 'val_loss']", "[3.0, 1.0]"]
    assert lines[2] == "Dense.__init__() got an unexpected keyword argument 'nonsense'"
    assert lines[-1] == "KeyError: 'nosuch'"


async def test_too_large_a_tensor_and_wrong_shapes_fail_in_tensorflows_words():
    source = (
        "import tensorflow as tf\n"
        "try:\n    tf.ones((2, 3)) + tf.ones((2, 4))\n"
        "except tf.errors.InvalidArgumentError as error:\n    print(error)\n"
        "tf.zeros((1024, 1024, 1024, 64))"
    )
    lines = await said(source)
    assert any(line.endswith("Incompatible shapes: [2,3] vs. [2,4] [Op:AddV2] name: ") for line in lines)
    assert lines[-1] == (
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape"
        "[1024,1024,1024,64] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc"
    )

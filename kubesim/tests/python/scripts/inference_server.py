# expect: ^listening on 8080$
# expect: ^200 \{"status": "ok"\}$
# expect: ^200 \{"label": \d, "device": "cuda:0"\}$
# expect: ^404$
# expect: ^server ended with -15$
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer

import torch

model = torch.nn.Linear(4, 3).to("cuda").eval()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/health":
            self.answer(200, {"status": "ok"})
        else:
            self.answer(404, {"error": "not found"})

    def do_POST(self):
        values = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with torch.no_grad():
            scores = model(torch.tensor([values], dtype=torch.float32).cuda())
        self.answer(200, {"label": int(scores.argmax(dim=1)), "device": str(scores.device)})

    def answer(self, code, body):
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


def serve():
    server = HTTPServer(("0.0.0.0", 8080), Handler)
    print("listening on 8080", flush=True)
    server.serve_forever()


def ask(path, body=None):
    data = json.dumps(body).encode() if body is not None else None
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:8080{path}", data=data, timeout=5) as response:
            print(response.status, response.read().decode(), flush=True)
    except urllib.error.HTTPError as error:
        print(error.code, flush=True)


if "--serve" in sys.argv:
    serve()
process = subprocess.Popen([sys.executable, __file__, "--serve"])
for _ in range(50):
    try:
        urllib.request.urlopen("http://127.0.0.1:8080/health", timeout=1).read()
        break
    except urllib.error.URLError:
        time.sleep(0.2)
ask("/health")
ask("/predict", [0.1, 0.2, 0.3, 0.4])
ask("/nothing")
process.terminate()
print("server ended with", process.wait(timeout=10))

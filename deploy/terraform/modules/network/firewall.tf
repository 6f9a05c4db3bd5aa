# Nodes reach each other and the control plane; everything else is closed until a rule of external_access opens it.
resource "google_compute_firewall" "deny_egress" {
  name        = "${var.name}-deny-egress"
  description = "Nodes connect to nothing outside that no other rule allows."
  network     = google_compute_network.this.name
  direction   = "EGRESS"
  priority    = 65000
  target_tags = [var.node_tag]

  destination_ranges = ["0.0.0.0/0"]

  deny {
    protocol = "all"
  }

  # Nothing is closed before what nodes need of each other is open: whoever applies this may be one of them.
  depends_on = [google_compute_firewall.internal_egress]
}

resource "google_compute_firewall" "internal_egress" {
  name        = "${var.name}-internal-egress"
  description = "Nodes and pods connect to each other, to services and to the control plane."
  network     = google_compute_network.this.name
  direction   = "EGRESS"
  priority    = 900
  target_tags = [var.node_tag]

  destination_ranges = [var.ranges.nodes, var.ranges.pods, var.ranges.services, var.ranges.control_plane]

  allow {
    protocol = "all"
  }
}

resource "google_compute_firewall" "internal_ingress" {
  name        = "${var.name}-internal-ingress"
  description = "Nodes and pods take connections of each other."
  network     = google_compute_network.this.name
  direction   = "INGRESS"
  priority    = 900
  target_tags = [var.node_tag]

  source_ranges = [var.ranges.nodes, var.ranges.pods]

  allow {
    protocol = "all"
  }
}

# Registries, datasets and external services, one rule for each that may.
resource "google_compute_firewall" "external_egress" {
  for_each = var.external_access

  name        = "${var.name}-${each.key}-egress"
  description = "${each.key} connects to the outside."
  network     = google_compute_network.this.name
  direction   = "EGRESS"
  priority    = each.value.priority
  target_tags = each.value.tags

  destination_ranges = each.value.ranges

  allow {
    protocol = "tcp"
    ports    = each.value.ports
  }

  lifecycle {
    precondition {
      condition     = each.value.priority < google_compute_firewall.deny_egress.priority
      error_message = "A rule that opens has to come before the one that closes: give it a smaller priority."
    }
  }
}

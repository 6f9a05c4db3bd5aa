tenants = {
  tenant-a = {
    team       = "vision"
    gpus       = 4
    developers = ["vision-engineers"]
  }

  tenant-b = {
    team       = "speech"
    gpus       = 4
    developers = ["speech-engineers"]
  }
}

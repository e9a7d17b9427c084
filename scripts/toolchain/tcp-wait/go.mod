module slipway.local/toolchain/tcp-wait

go 1.23
